scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals { none = 0 }
  output "o" { value = 1 / local.none }
}
