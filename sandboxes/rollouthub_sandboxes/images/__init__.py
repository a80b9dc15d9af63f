"""Images: found by name, built from a folder, shared by all hubs of a machine, and removed when unused."""

from rollouthub_sandboxes.images.image_map import FromMap, load_from_map
from rollouthub_sandboxes.images.provision import Images, ensure_image
from rollouthub_sandboxes.images.reference import ImageRef

__all__ = ["FromMap", "ImageRef", "Images", "ensure_image", "load_from_map"]
