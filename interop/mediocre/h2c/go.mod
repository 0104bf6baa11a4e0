module toolbus.test/mediocre-h2c

go 1.24
