"""Spark sessions: create or prepare a session, find a Java installation, provide files for workers, and run one job."""
