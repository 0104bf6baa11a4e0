scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "count" { default = "3" }
  action "echo" "numbers_and_text" {
    text  = 1.50
    times = var.count
  }
  action "echo" "left_out" {
    text  = true
    times = null
  }
}
