"""Images: had by name or built from a folder, once for all hubs of a machine, and thrown away when nobody uses them."""

from envhub_sandboxes.images.ensure import Images, ensure_image
from envhub_sandboxes.images.from_map import FromMap, load_from_map
from envhub_sandboxes.images.reference import ImageRef

__all__ = ["FromMap", "ImageRef", "Images", "ensure_image", "load_from_map"]
