scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals { said = action.echo.a.text }
  provider "e" { greeting = action.echo.a.text }
  provider "e" {
    alias    = "b"
    greeting = local.said
  }
  action "echo" "a" { text = "x" }
}
