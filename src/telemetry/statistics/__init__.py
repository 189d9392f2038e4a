"""Statistical conclusions from samples about the process behind them. Pure: numbers in, numbers out."""
