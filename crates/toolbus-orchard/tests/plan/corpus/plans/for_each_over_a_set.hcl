scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "names" {
    type    = set(string)
    default = ["zoe", "adam", "zoe"]
  }
  action "echo" "hello" {
    for_each = var.names
    text     = "hello ${each.key}"
  }
  action "echo" "all" { text = join(", ", [for key, said in action.echo.hello : said.text]) }
  output "adam" { value = action.echo.hello["adam"].text }
}
