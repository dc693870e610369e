"""What travels between coordinator and teachers: queries, sealed replies, bytes."""
