#!/usr/bin/env python
# coding: utf-8

# # Orders with their products
# Exported from a notebook.

# In[1]:


from pyspark.sql import SparkSession
from pyspark.sql.functions import *
from pyspark.sql.types import *

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext


# In[2]:


products = spark.createDataFrame([("bolt", 1), ("gear", 2), ("nut", 1), ("pin", 3)], ["product", "shelf"])
products.show()


# In[3]:


orders = spark.readStream.schema("order_id long, product string, quantity int").json("in/orders")
orders.isStreaming


# In[4]:


placed = orders.join(broadcast(products), "product", "left").fillna({"shelf": 0})
placed.printSchema()


# In[5]:


q = (
    placed.writeStream.format("parquet")
    .option("path", "out/placed")
    .option("checkpointLocation", "checkpoints/placed")
    .start()
)
q.status


# In[6]:


q.awaitTermination()
