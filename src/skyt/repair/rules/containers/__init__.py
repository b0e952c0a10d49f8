"""Rules for lists, sets, tables and stacks: how they are built, read and gone through."""
