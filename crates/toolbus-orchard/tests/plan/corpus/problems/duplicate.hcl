scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" { text = "x" }
  action "echo" "a" { text = "y" }
  variable "v" { default = 1 }
  variable "v" { default = 2 }
  locals { l = 1 }
  locals { l = 2 }
  output "o" { value = 1 }
  output "o" { value = 2 }
}
