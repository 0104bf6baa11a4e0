scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  locals { list = ["a"] }
  output "o" { value = local.list[3] }
  output "p" { value = { a = 1 }["b"] }
  action "echo" "a" {
    for_each = toset(["k"])
    text     = "x"
  }
  output "q" { value = action.echo.a["l"].text }
}
