"""The encoder that these tests share."""

from characters_toy import own_cache, pretrained

__all__ = ["own_cache", "pretrained"]
