scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  action "echo" "a" { text = "x" }
  action "noop" "n" {}
  output "o" { value = action.echo.a.txt }
  output "p" { value = action.echo.a.body }
  output "q" { value = action.noop.n.text }
}
