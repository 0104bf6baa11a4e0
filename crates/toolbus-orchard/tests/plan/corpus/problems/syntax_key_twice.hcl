scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals {
    a = { x = 1, "x" = 2 }
  }
}
