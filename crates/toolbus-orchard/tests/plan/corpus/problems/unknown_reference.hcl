scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "word" { default = "a" }
  action "echo" "first" { text = var.wrod }
  action "echo" "second" { text = action.echo.frist.text }
  action "echo" "third" { text = hello }
  action "echo" "fourth" { text = each.key }
  action "echo" "fifth" {
    text       = local.nothing
    depends_on = [action.ehco.first]
  }
  output "o" { value = component.greeter.g.line }
}
