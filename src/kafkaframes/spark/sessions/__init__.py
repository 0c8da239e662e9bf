"""Spark sessions: create or prepare one, find a Java, provide files for workers, and run one job."""
