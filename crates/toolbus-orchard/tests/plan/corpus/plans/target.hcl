# --target action.echo.b
scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" { text = "a" }
  action "echo" "b" { text = action.echo.a.text }
  action "echo" "c" { text = action.echo.b.text }
  output "b" { value = action.echo.b.text }
  output "c" { value = action.echo.c.text }
}
