"""The service over HTTP: routes, what every request goes through, pages, and running it."""
