"""The sweeps of the case growth: the cost of one operation while another quantity grows."""
