scenario "s" {
  required_providers {
    a = { source = "builtin/exce" }
    b = { source = "exec:./missing" }
    c = { source = "hashicorp/aws" }
    d = { source = "exec:../providers/echo.json" }
  }
  # No provider can be asked, so nothing is said about this.
  action "unheard_of" "a" {}
}
