"""Images: had by name or built from a folder, once for all hubs of a machine, and thrown away when nobody uses them."""

from rollouthub_sandboxes.images.image_map import FromMap, load_from_map
from rollouthub_sandboxes.images.provision import Images, ensure_image
from rollouthub_sandboxes.images.reference import ImageRef

__all__ = ["FromMap", "ImageRef", "Images", "ensure_image", "load_from_map"]
