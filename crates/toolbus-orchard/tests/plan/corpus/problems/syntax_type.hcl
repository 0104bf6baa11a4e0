scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "v" { type = strng }
  variable "w" { type = list }
  variable "x" { type = "string" }
}
