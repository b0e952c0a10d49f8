"""Rules for definitions: functions, classes, arguments, and what has no behaviour."""
