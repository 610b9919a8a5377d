"""The sweeps of the case growth: what one thing costs while another one grows."""
