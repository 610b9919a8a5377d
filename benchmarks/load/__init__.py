"""The load of a benchmark: producers, consumers and watchers, in processes of their own.

`children` starts them and talks to them. It starts the other modules that have a `main`.
"""
