component "pair" {
  variable "who" { type = string }
  variable "punctuation" { default = "!" }
  component "greeter" "left" {
    source = "./greeter.hcl"
    inputs = { who = "${var.who}${var.punctuation}" }
  }
  component "greeter" "right" {
    source = "./greeter.hcl"
    inputs = { who = component.greeter.left.line }
  }
  output "both" { value = [component.greeter.left.line, component.greeter.right.line] }
}
