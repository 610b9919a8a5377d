"""What loads a server in a benchmark: producers, consumers and watchers, in processes of their own.

`children` starts them and talks to them; the other modules that have a `main` are what it starts.
"""
