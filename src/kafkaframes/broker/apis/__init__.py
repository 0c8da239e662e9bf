"""The request handlers: one module for each family of APIs. Each handler is decorated with its ``Api``."""
