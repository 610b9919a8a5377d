"""The parts of the case xmin: the session that holds xmin, dead rows, the course of the cycles."""
