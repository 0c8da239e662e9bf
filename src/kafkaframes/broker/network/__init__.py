"""What has sockets: listeners, connections and their send queues, ports, and the HTTP server with its metrics."""
