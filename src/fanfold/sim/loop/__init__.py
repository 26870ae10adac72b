"""What is compiled: events, ports, hosts, routers, receivers."""
