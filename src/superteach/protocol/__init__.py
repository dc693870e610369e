"""What travels between coordinator and teachers: queries, messages, bytes."""
