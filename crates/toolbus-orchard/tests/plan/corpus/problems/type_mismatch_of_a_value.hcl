# --var n=many
scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "n" { type = number }
}
