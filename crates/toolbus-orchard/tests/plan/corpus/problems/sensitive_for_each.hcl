# --var keys=["a"]
scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "keys" {
    type      = set(string)
    sensitive = true
  }
  action "echo" "a" {
    for_each = var.keys
    text     = each.key
  }
}
