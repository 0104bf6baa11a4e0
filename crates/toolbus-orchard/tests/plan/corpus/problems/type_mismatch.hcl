scenario "s" {
  required_providers {
    e = { source = "exec:../providers/echo" }
  }
  variable "n" {
    type    = number
    default = "many"
  }
  action "echo" "a" {
    text  = ["x"]
    times = "twice"
  }
  action "echo" "b" {
    text    = "x"
    timeout = "soon"
    retry { attempts = 0 }
  }
  action "echo" "c" {
    for_each = ["x", "y"]
    text     = each.value
  }
  output "o" { value = "a" + 1 }
}
