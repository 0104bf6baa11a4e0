# --env a=1 --env b=1 --env c=1 --env d=1 --var-file values/values.hcl --var-file values/values.json --var c=["x"]
scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "a" { type = string }
  variable "b" { type = number }
  variable "c" { type = list(string) }
  variable "d" {}
  variable "e" { default = { k = true } }
  output "all" { value = [var.a, var.b, var.c, var.d, var.e] }
}
