# --var wrod=x
scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "word" { default = "a" }
  output "o" { value = var.word }
}
