"""What a child does with its SparkSession: plain functions `f(spark, **arguments)` that return JSON values."""
