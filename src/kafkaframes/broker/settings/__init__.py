"""The settings of a broker, its topics and groups: names, defaults, types, properties files, listeners, features."""
