"""The progress of streaming queries: lag, its metrics, and the files of a checkpoint."""
