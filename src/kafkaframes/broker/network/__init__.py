"""The modules with sockets: listeners, connections and their send queues, ports, the HTTP server, and the metrics."""
