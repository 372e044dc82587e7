"""What both sides of the wall share: schemas, privacy accounting, noise laws, evidence, designs."""
