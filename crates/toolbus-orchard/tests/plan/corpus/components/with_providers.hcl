component "with_providers" {
  required_providers {}
}
