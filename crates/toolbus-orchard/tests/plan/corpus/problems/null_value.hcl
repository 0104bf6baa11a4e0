scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "v" { default = null }
  action "echo" "a" { text = "x${var.v}" }
  output "o" { value = var.v + 1 }
}
