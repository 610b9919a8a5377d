"""The sink: a DataFrame's rows as events of a queue."""
