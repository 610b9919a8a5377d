"""The parts of the case xmin: what holds xmin, dead rows, and what became of the cycles."""
