"""The commands of the service: `serve`, `status`, `export`, `import`, `keys`, `canon`."""
