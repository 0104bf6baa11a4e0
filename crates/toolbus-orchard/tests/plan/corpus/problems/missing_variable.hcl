scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "token" {
    type        = string
    sensitive   = true
    description = "the key of the shop"
  }
  variable "other" {}
}
