"""Forms: they turn what a person typed into a service's input. Whether it is right is the service's business."""
