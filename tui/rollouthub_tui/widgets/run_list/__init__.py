"""The list of runs: its table, the words on each line, and the figures behind them."""
