"""From segments, Parquet or a DataFrame to a log directory that a real broker opens. Complete or absent."""
